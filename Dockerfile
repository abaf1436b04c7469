# The service without torch. docs/production.md says how to build and run it; scripts/check_dockerfile.py carries out its steps.

FROM debian:bookworm-slim AS build
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates python3 python3-venv \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /build
COPY pyproject.toml README.md LICENSE constraints.txt ./
COPY scripts/service_requirements.py scripts/
# Add trees for LightGBM; models for CatBoost, XGBoost and ONNX Runtime.
ARG EXTRAS=serve,redis
RUN python3 scripts/service_requirements.py "$EXTRAS" > requirements.txt \
    && python3 -m venv /opt/resus \
    && /opt/resus/bin/pip install --no-cache-dir --constraint constraints.txt --requirement requirements.txt
COPY src src
RUN /opt/resus/bin/pip install --no-cache-dir --no-deps . \
    && /opt/resus/bin/pip uninstall --yes pip setuptools

FROM debian:bookworm-slim
RUN apt-get update \
    && apt-get install --yes --no-install-recommends libgomp1 python3 \
    && rm -rf /var/lib/apt/lists/* \
    && groupadd --gid 10001 resus \
    && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin resus \
    && install --directory --owner 10001 --group 10001 --mode 0700 /data
COPY --from=build /opt/resus /opt/resus
ENV PATH=/opt/resus/bin:/usr/local/bin:/usr/bin:/bin PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
# Beyond loopback, the service starts only with a token: RESUS_TOKEN or RESUS_TOKEN_FILE.
ENV RESUS_RUN=/data/model RESUS_HOST=0.0.0.0 RESUS_PORT=8000 RESUS_STORE=/data/events.sqlite RESUS_LOG_FORMAT=json
WORKDIR /data
VOLUME ["/data"]
EXPOSE 8000
USER 10001:10001
HEALTHCHECK --interval=30s --timeout=6s --start-period=60s --retries=3 \
    CMD ["python3", "-c", "import http.client, os, sys; ask = http.client.HTTPConnection('127.0.0.1', int(os.environ['RESUS_PORT']), timeout=5); ask.request('GET', '/readyz'); sys.exit(ask.getresponse().status != 200)"]
ENTRYPOINT ["resus"]
CMD ["serve"]
