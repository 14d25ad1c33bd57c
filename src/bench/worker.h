// The modes of marathon-worker.
#pragma once

namespace marathon {

// exec --jail FILE -- argv…: enters the jail, then becomes the program. 125: the jail could not be
// entered; 126: the program cannot be run; 127: there is no such program.
int worker_exec_main(int argc, char** argv);

// serve …: loads one implementation in the jail and runs it when the judge asks (protocol.h).
int worker_serve_main(int argc, char** argv);

// cuda --lib FILE --temp DIR: runs one CUDA implementation on decoys in the jail and leaves plans.
int worker_cuda_main(int argc, char** argv);

// replay: loads cubins and replays plans, never a line of host code; talks to the judge.
int worker_replay_main(int argc, char** argv);

// profile --lib FILE --task-folder DIR --shape NAME --calls N: runs it alone, for perf and
// callgrind.
int worker_profile_main(int argc, char** argv);

}  // namespace marathon
