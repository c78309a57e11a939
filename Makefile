.PHONY: up
up:
	@echo "under construction"
