"""Campaigns: long searches in small units of work, which are plain data, guided by what earlier ones reached."""
