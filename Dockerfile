# The light size of Arbora with models for English: docker build -t arbora . && docker run --rm -i arbora --help
#
# Kernels are compiled for the processor that builds the image. On another kind they are compiled again at first use.

FROM python:3.11-slim AS build
COPY . /source
RUN /source/container/install.sh /source /opt/arbora

FROM python:3.11-slim
COPY --from=build /opt/arbora /opt/arbora
RUN useradd --create-home arbora
USER arbora
WORKDIR /home/arbora
ENV PATH=/opt/arbora/bin:$PATH PYTHONUNBUFFERED=1
ENTRYPOINT ["arbora"]
