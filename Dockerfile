# kfmt in a small image that does not run as root.
#
#   docker build -t kfmt .
#   docker run --rm -v /var/lib/kafka:/data:ro kfmt verify-crc .
#
# Where the segments are readable by their owner only: --user "$(id -u):$(id -g)".

FROM python:3.13-slim AS build
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY pyproject.toml setup.py README.md LICENSE ./
COPY docs/man docs/man
COPY kfmt_cli kfmt_cli
RUN python -m venv /opt/kfmt \
    && /opt/kfmt/bin/pip install --no-cache-dir ".[regex]" \
    && /opt/kfmt/bin/python -c "from kfmt_cli.core.native.build_state import interpreted_modules; assert not interpreted_modules()"

FROM python:3.13-slim
COPY --from=build /opt/kfmt /opt/kfmt
ENV PATH=/opt/kfmt/bin:$PATH
USER 10001:10001
WORKDIR /data
ENTRYPOINT ["kfmt"]
CMD ["--help"]
