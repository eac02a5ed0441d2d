# Kiln on a plain Debian 12: what README.md says, step by step.
#
#   docker build -t kiln .                    builds kiln as scripts/build release does
#   docker run --rm kiln kiln --version
#   docker build -t kiln-dev --target dev .   only the tools: for .devcontainer, and for scripts/test on a mounted tree

# What Kiln is built from. A layer of its own, so that a change of the sources fetches nothing again.
FROM debian:12 AS dependencies
WORKDIR /src/kiln
COPY scripts/setup scripts/packages.txt scripts/wheels.txt scripts/privatise_onednn.py scripts/
RUN scripts/setup && rm -rf /var/lib/apt/lists/*

# The tools of tests and checks too: clang-14, clang-format-14, clang-tidy-14; git and shellcheck for people.
FROM dependencies AS dev
RUN scripts/setup --lint \
  && apt-get update \
  && apt-get install -y --no-install-recommends ca-certificates git less shellcheck \
  && rm -rf /var/lib/apt/lists/*

# The last stage is what `docker build` makes unless --target names another.
FROM dependencies AS release
COPY . .
RUN scripts/build release
ENV PATH=/src/kiln/build/release/bin:$PATH
CMD ["kiln", "--help"]
