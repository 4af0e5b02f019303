# Included by the Makefile: -include docker/docker.mk
.PHONY: docker-check
docker-check: ## the image and compose.yaml, proved without a container engine (root on Debian 12)
	$(or $(VENV_PYTHON),python3) -m docker.check $(STEPS)
