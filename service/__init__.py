"""The HTTP service: an API, UDPipe's interface, and a page that draws trees.

    requests -> app.py, udpipe.py -> reading.py (sentences) -> batching.py (score, decode, label) -> answers.py

`http.py` has what all requests share: limits, headers, errors, log lines.
"""
