# The image holds the program and nothing else that the base does not bring. It runs as an ordinary user, writes
# to /var/lib/anteroom alone, and so works with a read-only root file system:
#
#   docker run --read-only -p 8080:8080 -v anteroom:/var/lib/anteroom -v ./anteroom.yaml:/etc/anteroom/anteroom.yaml:ro anteroom
#
# The file has to say `data_dir: /var/lib/anteroom`.

FROM rust:1-slim-bookworm AS build
WORKDIR /anteroom
RUN apt-get update && apt-get install --yes --no-install-recommends make && rm -rf /var/lib/apt/lists/*
COPY Makefile ./
RUN make build-needs
COPY . .
RUN make build

FROM debian:bookworm-slim
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates \
    && rm -rf /var/lib/apt/lists/* \
    && groupadd --gid 10001 anteroom \
    && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /var/lib/anteroom --shell /usr/sbin/nologin anteroom \
    && install --directory --owner=10001 --group=10001 --mode=0700 /var/lib/anteroom \
    && install --directory /etc/anteroom
COPY --from=build /anteroom/target/release/anteroom /usr/local/bin/anteroom
USER 10001
VOLUME /var/lib/anteroom
EXPOSE 8080
# SIGTERM drains: visitors inside finish their requests, then the process ends.
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=10s \
    CMD ["/usr/local/bin/anteroom", "healthcheck", "--config", "/etc/anteroom/anteroom.yaml"]
ENTRYPOINT ["/usr/local/bin/anteroom"]
CMD ["run", "--config", "/etc/anteroom/anteroom.yaml", "--log-format", "json"]
