# The controller's image: what uv.lock names and nothing else, compiled, for a user without a name or rights.
#   docker build -t REGISTRY/headroom:0.1.0 .
ARG PYTHON=3.13

FROM python:${PYTHON}-slim AS build
RUN pip install --no-cache-dir uv==0.13.9
ENV UV_LINK_MODE=copy UV_PYTHON_DOWNLOADS=never UV_PROJECT_ENVIRONMENT=/opt/headroom
WORKDIR /src
COPY pyproject.toml uv.lock ./
RUN uv sync --quiet --locked --no-dev --no-install-project
# 60 of 400 MB, and never imported.
RUN find /opt/headroom/lib -type d -path "*/site-packages/*" -name tests -prune -exec rm -r {} +
COPY LICENSE README.md ./
COPY autoscaler autoscaler
# A read-only root can keep no bytecode that is made later.
RUN uv sync --quiet --locked --no-dev --no-editable --compile-bytecode

FROM python:${PYTHON}-slim
COPY --from=build /opt/headroom /opt/headroom
# A user without a name has no home either, and libraries ask for one.
# One thread of BLAS and OpenMP: on CPUs that others use as well, two threads make a fit twenty times slower.
ENV PATH=/opt/headroom/bin:$PATH HOME=/tmp OMP_NUM_THREADS=1 PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 65532:65532
WORKDIR /tmp
ENTRYPOINT ["headroom"]
