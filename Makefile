# The steps of .ci/run by name. "make ci" runs them all, and installs what it misses.

.PHONY: help ci fmt vet staticcheck test race build smoke readme

help:
	@echo "make test | race | build | smoke | readme | fmt | vet | staticcheck | ci"

ci:
	.ci/run

fmt:
	gofmt -l -w .

vet:
	go vet ./...

staticcheck:
	go run honnef.co/go/tools/cmd/staticcheck@v0.8.2 ./...

test:
	go test ./...

race:
	go test -race ./...

build:
	CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' -o revisor .

smoke: build
	.ci/smoke ./revisor

readme: build
	.ci/readme
