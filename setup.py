"""What pyproject.toml cannot say: files beside the packages that belong inside `console`."""

from __future__ import annotations

from setuptools import find_packages, setup

setup(
    packages=[
        *find_packages(include=["vela*", "broker*", "console*", "pipeline*"]),
        "console.templates",
        "console.static",
        "console.docs",
    ],
    package_dir={"console.templates": "templates", "console.static": "static", "console.docs": "docs"},
    package_data={
        "": ["sql/*.sql", "*.proto", "*.pyi", "py.typed"],
        "console": ["locale/*/LC_MESSAGES/django.*"],
        "console.templates": ["**/*"],
        "console.static": ["**/*"],
        "console.docs": ["**/*.md", "images/*.png"],
    },
)
