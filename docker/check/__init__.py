"""`make docker-check`: test the image and the compose file on a machine without a container engine.

The check uses the kernel's own means instead of an engine: buildah builds the image inside a chroot on a base made by
debootstrap, and every role runs as process 1 of fresh namespaces, on a read-only root, as the image's user, without
capabilities. The check needs root on Debian 12, and says so elsewhere.
"""
