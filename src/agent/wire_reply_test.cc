// How answers are put together: see tests/golden/wire/*.sse.
