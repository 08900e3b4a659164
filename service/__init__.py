"""The HTTP service: an API, UDPipe's interface, and a page on which trees can be looked at.

    requests -> app.py, udpipe.py -> reading.py (sentences) -> batching.py (score, decode, label) -> answers.py

`http.py` has what holds for all requests: limits, headers, errors, log lines.
"""
