"use strict";
document.documentElement.classList.add("js");

const figures = [...document.querySelectorAll("figure.steps")];

// One drawing: which of its calls is the current one.
function stepper(figure) {
  const rows = [...figure.querySelectorAll("svg .step")];
  const panels = [...figure.querySelectorAll(".panel")];
  const where = figure.querySelector(".where");
  let current = rows.length - 1;

  function show(place) {
    current = Math.max(0, Math.min(rows.length - 1, place));
    for (const list of [rows, panels]) {
      list.forEach((one, index) => {
        one.classList.toggle("is-current", index === current);
        if (index === current) one.setAttribute("aria-current", "step");
        else one.removeAttribute("aria-current");
      });
    }
    const last = rows[rows.length - 1].dataset.step;
    where.textContent = `call ${rows[current].dataset.step} of ${last}`;
  }

  const go = {
    first: () => show(0),
    previous: () => show(current - 1),
    next: () => show(current + 1),
    last: () => show(rows.length - 1),
  };
  rows.forEach((row, index) => row.addEventListener("click", () => show(index)));
  figure.querySelectorAll("[data-go]").forEach((button) => button.addEventListener("click", go[button.dataset.go]));
  if (rows.length) show(current);
  return go;
}

const steppers = new Map(figures.map((figure) => [figure, stepper(figure)]));

// Keys that mean something to the page itself only count in a drawing that has the focus.
const ANYWHERE = { j: "next", k: "previous", ArrowRight: "next", ArrowLeft: "previous" };
const FOCUSED = { ...ANYWHERE, ArrowDown: "next", ArrowUp: "previous", Home: "first", End: "last" };

function nearest() {
  return figures.find((figure) => figure.getBoundingClientRect().bottom > 80) ?? figures[figures.length - 1];
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey || !figures.length) return;
  const focused = event.target instanceof Element ? event.target.closest("figure.steps") : null;
  const action = (focused ? FOCUSED : ANYWHERE)[event.key];
  if (action === undefined) return;
  event.preventDefault();
  steppers.get(focused ?? nearest())[action]();
});

// From disk a browser may have no clipboard to offer: then the command is selected and copied as by hand.
async function copy(button) {
  const code = button.previousElementSibling;
  let done = false;
  try {
    await navigator.clipboard.writeText(code.textContent);
    done = true;
  } catch {
    getSelection().selectAllChildren(code);
    done = document.execCommand("copy");
  }
  button.textContent = done ? "copied" : "selected: press Ctrl+C";
}

document.querySelectorAll("button.copy").forEach((button) => button.addEventListener("click", () => copy(button)));
