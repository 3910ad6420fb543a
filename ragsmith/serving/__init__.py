"""Serving is a pipeline at work for others: over HTTP, on a page, and as tools of an agent.

    limits        ->  how much is taken at a time, and how long it may take
    answering     ->  one pipeline, loaded once, and what one request gets from it
    workers       ->  the few threads that answer, those who wait for them, and those who are gone
    conversation  ->  the last question of several turns, such that it can be understood alone
    requests      ->  the body of a request, within its limits, and errors in the form of OpenAI's
    middleware    ->  what every request passes first: names, tokens, request ids, the log
    chat          ->  OpenAI's chat completions
    app           ->  the routes, as an ASGI application
    feedback      ->  what people say of answers, kept as drafted questions
    monitoring    ->  the log and the metrics, for programs
    server        ->  a server of its own, with `uvicorn`
    tools         ->  the same as tools of the Model Context Protocol

The framework is Starlette: the `mcp` package needs it anyway, and errors are to be OpenAI's, so that what FastAPI adds,
checks of bodies with replies of its own form, would only have to be undone.
"""
