"""Requests drawn from the schema: none is answered with a failure, or with what the schema does not say."""

from __future__ import annotations

import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import content_type_conformance, status_code_conformance
from serving import Server

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance]


def test_the_schema_holds(server: Server) -> None:
    schema = schemathesis.openapi.from_url(f"{server.url}/openapi.json")
    tried = []
    for operation in (found.ok() for found in schema.get_all_operations()):

        @given(case=operation.as_strategy())
        @settings(max_examples=40, derandomize=True, suppress_health_check=list(HealthCheck))
        def check(case: schemathesis.Case) -> None:
            tried.append(case.path)
            case.call_and_validate(checks=CHECKS)

        check()
    assert {"/v1/parse", "/v1/models", "/v1/decoders"} == set(tried)
