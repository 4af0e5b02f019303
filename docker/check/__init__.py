"""`make docker-check`: test the image and the compose file on a machine without a container engine.

What an engine would do is done with the kernel's own means: buildah builds the image inside a chroot on a base made
by debootstrap, and every role runs as process 1 of fresh namespaces, on a read-only root, as the image's user,
without capabilities. Needs root on Debian 12; says so where that is not given.
"""
