"""What pyproject.toml cannot say: templates and static files lie beside the packages and belong inside `console`."""

from __future__ import annotations

from setuptools import find_packages, setup

setup(
    packages=[
        *find_packages(include=["vela*", "broker*", "console*", "pipeline*"]),
        "console.templates",
        "console.static",
    ],
    package_dir={"console.templates": "templates", "console.static": "static"},
    package_data={
        "": ["sql/*.sql", "*.proto", "*.pyi", "py.typed"],
        "console.templates": ["**/*"],
        "console.static": ["**/*"],
    },
)
