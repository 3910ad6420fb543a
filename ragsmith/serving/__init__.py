"""Serve a pipeline over HTTP, on a page, and as tools of an agent.

    limits        ->  limits of concurrency, sizes and times
    answering     ->  answers of a pipeline that is loaded once
    workers       ->  thread pool with a bounded queue, shared work and cancellation
    conversation  ->  rewriting of the last question of a conversation
    requests      ->  validation of request bodies, and errors in the format of OpenAI
    middleware    ->  checks of hosts, origins and tokens, request ids, and the access log
    chat          ->  chat completions in the format of OpenAI
    app           ->  routes, as an ASGI application
    feedback      ->  feedback of users, stored as drafted questions
    readiness     ->  whether what answers need is available
    monitoring    ->  structured log and metrics
    server        ->  HTTP server, with `uvicorn`
    tools         ->  tools of the Model Context Protocol

The framework is Starlette, on which the `mcp` package depends; the validation of FastAPI is not used, as errors must
have the format of OpenAI.
"""
