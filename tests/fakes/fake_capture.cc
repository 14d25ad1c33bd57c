// The fake driver's events, and streams that write down instead of running.
#include <algorithm>

#include "fake_cuda.h"

namespace marathon::fake {

namespace {

// Everything that one of `from` comes after, and these.
std::set<CUgraphNode> with_ancestors(CUgraph graph, const std::set<CUgraphNode>& from) {
  std::set<CUgraphNode> all = from;
  std::vector<CUgraphNode> open(from.begin(), from.end());
  while (!open.empty()) {
    const CUgraphNode node = open.back();
    open.pop_back();
    for (const CUgraph_st::Edge& edge : graph->edges) {
      if (edge.to == node && all.insert(edge.from).second) open.push_back(edge.from);
    }
  }
  return all;
}

void end_capture(Capture& capture) {
  capture.ended = true;
  for (const auto& stream : world().streams) {
    if (stream->capture.get() != &capture) continue;
    stream->capture.reset();
    stream->frontier.clear();
  }
}

bool is_joined(const Capture& capture) {
  const std::set<CUgraphNode> seen = with_ancestors(capture.graph, capture.origin->frontier);
  const auto& streams = world().streams;
  return std::all_of(streams.begin(), streams.end(), [&](const auto& stream) {
    return stream->capture.get() != &capture ||
           std::includes(seen.begin(), seen.end(), stream->frontier.begin(),
                         stream->frontier.end());
  });
}

// An event that stands in a capture has not happened and never will.
CUresult refuse_captured(CUevent event) {
  if (!event->capture) return CUDA_SUCCESS;
  if (!event->capture->ended) event->capture->broken = true;
  return CUDA_ERROR_CAPTURED_EVENT;
}

}  // namespace

// ---- capture

CUresult cuStreamBeginCapture(CUstream handle, CUstreamCaptureMode mode) {
  // As the driver: the legacy default stream cannot be captured.
  if (!handle) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  CUstream_st* stream = find_stream(handle);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  if (stream->capture) return CUDA_ERROR_ILLEGAL_STATE;
  stream->capture = std::make_shared<Capture>();
  stream->capture->graph = world().graphs.make();
  stream->capture->origin = handle;
  stream->capture->mode = mode;
  stream->capture->thread = std::this_thread::get_id();
  stream->frontier.clear();
  return CUDA_SUCCESS;
}

CUresult cuStreamEndCapture(CUstream handle, CUgraph* graph) {
  *graph = nullptr;
  CUstream_st* stream = find_stream(handle);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  const std::shared_ptr<Capture> capture = stream->capture;
  if (!capture) return CUDA_ERROR_ILLEGAL_STATE;
  if (capture->origin != handle) {
    capture->broken = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  }
  if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
      capture->thread != std::this_thread::get_id())
    return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  CUresult result = CUDA_SUCCESS;
  if (capture->broken)
    result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  else if (!is_joined(*capture))
    result = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  end_capture(*capture);
  if (result != CUDA_SUCCESS) {
    destroy_graph(capture->graph);
    return result;
  }
  *graph = capture->graph;
  return CUDA_SUCCESS;
}

// ---- events

CUresult cuEventCreate(CUevent* event, unsigned flags) {
  // Blocking, without timing, both: the fake's events are all alike.
  if (flags > 3) return CUDA_ERROR_INVALID_VALUE;
  *event = world().events.make();
  return CUDA_SUCCESS;
}

CUresult cuEventDestroy(CUevent event) {
  if (!world().events.has(event)) return CUDA_ERROR_INVALID_HANDLE;
  world().events.erase(event);
  return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent event, CUstream handle) {
  CUstream_st* stream = find_stream(handle);
  if (!stream || !world().events.has(event)) return CUDA_ERROR_INVALID_HANDLE;
  if (stream->capture) {
    if (stream->capture->broken) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    event->capture = stream->capture;
    event->frontier = stream->frontier;
    event->mark.reset();
    return CUDA_SUCCESS;
  }
  event->capture.reset();
  event->frontier.clear();
  event->mark = std::make_shared<Mark>();
  queue_step(*stream, [mark = event->mark] {
    mark->time_ns = world().clock_ns;
    mark->done = true;
    return true;
  });
  pump();
  return CUDA_SUCCESS;
}

CUresult cuStreamWaitEvent(CUstream handle, CUevent event, unsigned) {
  CUstream_st* stream = find_stream(handle);
  if (!stream || !world().events.has(event)) return CUDA_ERROR_INVALID_HANDLE;
  if (event->capture) {
    // After the capture's end the event is about nothing.
    if (event->capture->ended) return CUDA_ERROR_INVALID_VALUE;
    if (event->capture->broken) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (stream->capture && stream->capture != event->capture) {
      stream->capture->broken = event->capture->broken = true;
      return CUDA_ERROR_STREAM_CAPTURE_MERGE;
    }
    stream->capture = event->capture;
    stream->frontier.insert(event->frontier.begin(), event->frontier.end());
    return CUDA_SUCCESS;
  }
  if (stream->capture) {
    stream->capture->broken = true;
    return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
  }
  if (!event->mark) return CUDA_SUCCESS;  // never recorded: nothing to wait for
  queue_step(*stream, [mark = event->mark] { return mark->done; });
  pump();
  return CUDA_SUCCESS;
}

CUresult cuEventSynchronize(CUevent event) {
  if (!world().events.has(event)) return CUDA_ERROR_INVALID_HANDLE;
  if (const CUresult refused = refuse_captured(event)) return refused;
  return wait_until([mark = event->mark] { return !mark || mark->done; });
}

CUresult cuEventQuery(CUevent event) {
  if (!world().events.has(event)) return CUDA_ERROR_INVALID_HANDLE;
  if (const CUresult refused = refuse_captured(event)) return refused;
  pump();
  if (world().lost != CUDA_SUCCESS) return world().lost;
  return !event->mark || event->mark->done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult cuEventElapsedTime(float* ms, CUevent begin, CUevent end) {
  World& w = world();
  if (!w.events.has(begin) || !w.events.has(end) || !begin->mark || !end->mark)
    return CUDA_ERROR_INVALID_HANDLE;
  pump();
  if (w.lost != CUDA_SUCCESS) return w.lost;
  if (!begin->mark->done || !end->mark->done) return CUDA_ERROR_NOT_READY;
  *ms = static_cast<float>(1e-6 * static_cast<double>(end->mark->time_ns - begin->mark->time_ns));
  return CUDA_SUCCESS;
}

}  // namespace marathon::fake
