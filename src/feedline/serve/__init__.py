"""The reader service: one place on a host that reads, decodes and maps for several training processes.

`server` is the service: it listens, and hands each connection on to a host process. `host` runs pipelines,
`window` lets readers of the same pipeline share their blocks. `client` is the stream on the other side.
`protocol` is what they say to each other, `auto` starts a service on demand, `limits` divides what the
service may use among its hosts, `status` shows what is going on.
"""
