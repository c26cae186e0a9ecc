# docker build -t jdbcstore . && docker run -p 127.0.0.1:61613:61613 -v jdbcstore-data:/data jdbcstore
# keeps the messages in SQLite in the volume; docker-compose.yml shows the broker on a database server.
FROM python:3.13-slim AS build
WORKDIR /build
RUN python -m venv /opt/jdbcstore
COPY requirements.lock ./
RUN /opt/jdbcstore/bin/pip install --no-cache-dir --require-hashes -r requirements.lock
COPY pyproject.toml README.md LICENSE ./
COPY jdbcstore jdbcstore
COPY migrations migrations
RUN /opt/jdbcstore/bin/pip install --no-cache-dir --no-deps --no-build-isolation .

FROM python:3.13-slim
RUN useradd --uid 10001 --create-home --home-dir /data jdbcstore
COPY --from=build /opt/jdbcstore /opt/jdbcstore
ENV PATH=/opt/jdbcstore/bin:$PATH
USER 10001
WORKDIR /data
VOLUME /data
EXPOSE 61613
ENTRYPOINT ["jdbcstore"]
CMD ["broker", "--bind", "0.0.0.0:61613"]
