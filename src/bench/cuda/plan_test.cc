#include "bench/cuda/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>

namespace marathon {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Two kernels, a memset and a copy in a row over two arenas.
Plan good_plan() {
  Plan plan;
  plan.arenas = {{0x600000000000, 1 << 20}, {0x610000000000, 1 << 20}};
  PlanGraph graph;
  graph.nodes.resize(4);
  graph.nodes[0].kernel.name = "first";
  graph.nodes[0].kernel.parameters = {{0, std::string("\x00\x00\x10\xff", 4)}, {8, "12345678"}};
  graph.nodes[1].kernel.name = "second";
  graph.nodes[1].kernel.image = std::string(64, 'a');
  graph.nodes[1].kernel.grid = {7, 2, 1};
  graph.nodes[1].kernel.cluster = {2, 1, 1};
  graph.nodes[1].kernel.max_dynamic_shared_bytes = 200'000;
  graph.nodes[2].kind = PlanNodeKind::memset;
  graph.nodes[2].memset = {0x610000000000, 256, 1, 0, 4, 0xffffffff};
  graph.nodes[3].kind = PlanNodeKind::copy;
  graph.nodes[3].copy.from = 0x600000000000;
  graph.nodes[3].copy.to = 0x610000000100;
  graph.nodes[3].copy.width_bytes = 4096;
  graph.edges = {{0, 1, 1, 1}, {1, 2}, {2, 3}};
  plan.graphs = {graph};
  return plan;
}

std::string refusal(const std::function<void(Json&)>& spoil) {
  Json json = to_json(good_plan());
  spoil(json);
  const Result<Plan> plan = plan_from_json(json);
  if (plan) return "accepted";
  EXPECT_EQ(plan.error().fault, Fault::invalid);
  return plan.error().what;
}

Json& node(Json& json, size_t index) { return json["graphs"][0]["nodes"][index]; }

TEST(Plan, SurvivesItsJson) {
  const Json json = to_json(good_plan());
  const Result<Plan> plan = plan_from_json(json);
  ASSERT_TRUE(plan) << plan.error().what;
  EXPECT_EQ(to_json(*plan), json);
  EXPECT_EQ(plan->graphs[0].nodes[0].kernel.parameters[0].bytes, std::string("\x00\x00\x10\xff", 4));
  EXPECT_THAT(kernel_names(*plan), ElementsAre("first", "second"));
}

TEST(Plan, WhatLiesOutsideOfTheBuffersIsRefused) {
  EXPECT_THAT(refusal([](Json& json) { node(json, 2)["address"] = 0x5fffffffffff; }),
              HasSubstr("not inside of the judge's buffers"));
  EXPECT_THAT(refusal([](Json& json) { node(json, 2)["width"] = (1 << 18) + 1; }),
              HasSubstr("not inside"));
  EXPECT_THAT(refusal([](Json& json) { node(json, 3)["from"] = 0x600000000000 + (1 << 20) - 4095; }),
              HasSubstr("not inside"));
  EXPECT_THAT(refusal([](Json& json) { node(json, 3)["to"] = 0; }), HasSubstr("not inside"));
  // Factors that would overflow a product.
  EXPECT_THAT(refusal([](Json& json) {
                node(json, 3)["height"] = int64_t{1} << 40;
                node(json, 3)["from_pitch"] = int64_t{1} << 40;
                node(json, 3)["to_pitch"] = int64_t{1} << 40;
              }),
              HasSubstr("too large"));
}

TEST(Plan, NonsenseIsRefusedInWords) {
  EXPECT_THAT(refusal([](Json& json) { json["plan"] = 2; }), HasSubstr("plan"));
  EXPECT_THAT(refusal([](Json& json) { node(json, 0)["kind"] = "host"; }), HasSubstr("'host'"));
  EXPECT_THAT(refusal([](Json& json) { node(json, 0).erase("name"); }), HasSubstr("lacks a name"));
  EXPECT_THAT(refusal([](Json& json) { node(json, 0)["grid"] = {0, 1, 1}; }), HasSubstr("grid"));
  EXPECT_THAT(refusal([](Json& json) { node(json, 0)["block"] = {1025, 1, 1}; }),
              HasSubstr("block"));
  EXPECT_THAT(refusal([](Json& json) { node(json, 0)["shared"] = -1; }), HasSubstr("shared"));
  EXPECT_THAT(refusal([](Json& json) { node(json, 0)["parameters"][0]["bytes"] = "0g"; }),
              HasSubstr("hex"));
  EXPECT_THAT(refusal([](Json& json) { node(json, 0)["parameters"][1]["offset"] = 2; }),
              HasSubstr("offset"));
  EXPECT_THAT(refusal([](Json& json) { json["arenas"][0]["bytes"] = "many"; }), HasSubstr("bytes"));
  EXPECT_THAT(refusal([](Json& json) { json["graphs"] = 3; }), HasSubstr("graphs"));
  EXPECT_THAT(refusal([](Json& json) { json["graphs"][0]["edges"][0]["to"] = 9; }),
              HasSubstr("to = 9"));
}

TEST(Plan, NodesThatWaitInACircleAreRefused) {
  EXPECT_THAT(refusal([](Json& json) {
                json["graphs"][0]["edges"].push_back({{"from", 3}, {"to", 0}});
              }),
              HasSubstr("circle"));
  EXPECT_THAT(refusal([](Json& json) {
                json["graphs"][0]["edges"].push_back({{"from", 1}, {"to", 1}});
              }),
              HasSubstr("itself"));
}

}  // namespace
}  // namespace marathon
