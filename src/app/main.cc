#include "app/app.h"

int main(int argc, char** argv) { return marathon::marathon_main(argc, argv); }
