// Model directories as found: layouts that open, and layouts that must not.
#include "engram/checkpoint.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "tests/support/matchers.hpp"
#include "tests/support/tiny_model.hpp"

namespace engram {
namespace {

using test::fails;
using test::is_ok;
using test::Tensor;
using test::TinyModel;

namespace fs = std::filesystem;

class CheckpointTest : public ::testing::Test {
 protected:
  Result<Checkpoint> open(const CheckpointOptions& options = {}) {
    model_.write(folder_);
    return Checkpoint::open(folder_.path(), options);
  }

  // The bytes of a tensor as the opened checkpoint places them.
  static std::string bytes_of(const TensorExtent& tensor) {
    return test::read_file(tensor.path).substr(tensor.offset_bytes, tensor.size_bytes);
  }

  // Opens, and finds every tensor's true bytes.
  void expect_right_bytes(const Result<Checkpoint>& checkpoint) {
    ASSERT_TRUE(is_ok(checkpoint));
    ASSERT_EQ(checkpoint->tables().size(), 2u);
    ASSERT_EQ(checkpoint->gates().size(), 2u);
    EXPECT_TRUE(checkpoint->missing().empty());
    for (std::size_t i = 0; i < 2; ++i) {
      const std::string layer = i == 0 ? "layers.1." : "layers.14.";
      const TableSource& table = checkpoint->tables()[i];
      EXPECT_EQ(table.row_count, i == 0 ? 660u : 864u);
      EXPECT_EQ(bytes_of(table.weight), find(layer, "embed.weight"));
      EXPECT_EQ(bytes_of(*table.scale), find(layer, "embed."));
      EXPECT_EQ(bytes_of(checkpoint->gates()[i].wkv), find(layer, "wkv.weight"));
      EXPECT_EQ(bytes_of(*checkpoint->gates()[i].wkv_scale), find(layer, "wkv."));
      EXPECT_EQ(bytes_of(checkpoint->gates()[i].q_weight), find(layer, "q_weight"));
      EXPECT_EQ(bytes_of(checkpoint->gates()[i].k_weight), find(layer, "k_weight"));
    }
  }

  // A tensor's bytes by parts of its name; "embed." and "wkv." mean the scale, however spelled.
  std::string find(const std::string& layer, const std::string& part) {
    for (const auto& shard : model_.shards) {
      for (const Tensor& tensor : shard) {
        const bool scale = part.ends_with('.');
        if (tensor.name.find(layer) != std::string::npos &&
            tensor.name.find(part) != std::string::npos &&
            (!scale || tensor.name.find("scale") != std::string::npos)) {
          return tensor.bytes;
        }
      }
    }
    return "none";
  }

  test::TemporaryDirectory folder_;
  TinyModel model_;
};

TEST_F(CheckpointTest, OpensTheOfficialLayout) { expect_right_bytes(open()); }

TEST_F(CheckpointTest, FollowsTheIndexWhereShardsAreSwapped) {
  std::swap(model_.shards[0], model_.shards[1]);
  expect_right_bytes(open());
}

TEST_F(CheckpointTest, TakesTensorsInAnyOrder) {
  for (auto& shard : model_.shards) std::reverse(shard.begin(), shard.end());
  expect_right_bytes(open());
}

TEST_F(CheckpointTest, TakesEveryPrefixAndScaleName) {
  for (const std::string prefix : {"model.", "language_model.", "model.language_model."}) {
    for (const std::string scale : {"scale", "weight_scale", "weight_scale_inv", "scales"}) {
      model_ = TinyModel();
      model_.for_each_tensor([&](Tensor& tensor) {
        tensor.name = prefix + tensor.name;
        const std::size_t at = tensor.name.rfind("scale");
        if (at != std::string::npos) tensor.name.replace(at, 5, scale);
      });
      expect_right_bytes(open());
    }
  }
}

TEST_F(CheckpointTest, TakesEverySpellingOfADtype) {
  for (const std::string scale : {"F8_E8M0FNU", "U8"}) {
    model_.for_each_tensor([&](Tensor& tensor) {
      if (tensor.dtype == "F8_E4M3") tensor.dtype = "F8_E4M3FN";
      if (tensor.name.ends_with("scale")) tensor.dtype = scale;
    });
    expect_right_bytes(open());
  }
}

TEST_F(CheckpointTest, OpensASingleFileOrShardsWithoutAnIndex) {
  model_.write(folder_);
  fs::remove(folder_ / "model.safetensors.index.json");
  expect_right_bytes(Checkpoint::open(folder_.path()));
  auto all = model_.shards[0];
  all.insert(all.end(), model_.shards[1].begin(), model_.shards[1].end());
  test::write_file(folder_ / "model.safetensors", test::safetensors(all));
  for (std::size_t i = 0; i < 2; ++i) fs::remove(folder_ / TinyModel::shard_name(i));
  expect_right_bytes(Checkpoint::open(folder_.path()));
}

TEST_F(CheckpointTest, FollowsLinksOfADownloadCache) {
  model_.write(folder_);
  fs::create_directory(folder_ / "blobs");
  for (std::size_t i = 0; i < 2; ++i) {
    const std::string name = TinyModel::shard_name(i);
    fs::rename(folder_ / name, folder_ / "blobs/" + name);
    fs::create_symlink("blobs/" + name, folder_ / name);
  }
  expect_right_bytes(Checkpoint::open(folder_.path()));
}

TEST_F(CheckpointTest, NeedsOnlyTheShardsThatHoldEngram) {
  model_.write(folder_);
  std::string index = model_.index_json();
  index.insert(index.rfind("}}"), R"(,"layers.0.attn.weight":"model-00009-of-00048.safetensors")");
  test::write_file(folder_ / "model.safetensors.index.json", index);
  test::write_file(folder_ / "stale.safetensors", "not even a header");
  expect_right_bytes(Checkpoint::open(folder_.path()));
}

TEST_F(CheckpointTest, ListsMissingGateTensorsAndStillServesTables) {
  for (auto& shard : model_.shards) {
    std::erase_if(shard, [](const Tensor& t) { return t.name == "layers.14.engram.q_weight"; });
  }
  const auto checkpoint = open();
  ASSERT_TRUE(is_ok(checkpoint));
  EXPECT_EQ(checkpoint->tables().size(), 2u);
  EXPECT_TRUE(checkpoint->gates().empty());
  EXPECT_EQ(checkpoint->missing(), std::vector<std::string>{"layers.14.engram.q_weight"});
}

TEST_F(CheckpointTest, OpensBfloat16TablesAndWeights) {
  for (const std::string part : {"layers.1.engram.embed", "layers.14.engram.embed"}) {
    Tensor& weight = model_.tensor(part + ".weight");
    weight.dtype = "BF16";
    weight.bytes += weight.bytes;
  }
  for (auto& shard : model_.shards) {
    std::erase_if(shard, [](const Tensor& t) { return t.name.ends_with("embed.scale"); });
  }
  const auto checkpoint = open();
  ASSERT_TRUE(is_ok(checkpoint));
  EXPECT_EQ(checkpoint->tables()[0].layout.format, RowFormat::bf16);
  EXPECT_FALSE(checkpoint->tables()[0].scale);
}

TEST_F(CheckpointTest, RefusesAGeometryThatIsNotTheTables) {
  model_.config["engram_vocab_size"] = "90";
  EXPECT_TRUE(fails(open(), Code::corrupt, "the geometry in config.json is not this table's"));
  model_.config["engram_vocab_size"] = "128";
  EXPECT_TRUE(fails(open(), Code::corrupt, "column 4 needs rows 556..706, the table has 660"));
  model_.config["engram_vocab_size"] = "101";
  model_.config["engram_num_embeddings"] = "[660,863]";
  EXPECT_TRUE(fails(open(), Code::corrupt, "says 863 rows for layer 14, the tensor has 864"));
  model_.config["engram_num_embeddings"] = "[864,660]";
  EXPECT_TRUE(fails(open(), Code::corrupt, "says 864 rows for layer 1"));
}

TEST_F(CheckpointTest, AcceptsSpareRowsOnlyWhenAsked) {
  for (Tensor* tensor : {&model_.tensor("layers.1.engram.embed.weight"),
                         &model_.tensor("layers.1.engram.embed.scale")}) {
    tensor->shape[0] += 1;
    tensor->bytes += std::string(tensor->shape[1], 'x');
  }
  model_.config["engram_num_embeddings"] = "[661,864]";
  EXPECT_TRUE(fails(open(), Code::corrupt, "add up to 660 rows, the table has 661"));
  EXPECT_TRUE(is_ok(open({.allow_spare_rows = true})));
  model_.config.erase("engram_num_embeddings");
  EXPECT_TRUE(fails(open(), Code::corrupt, "add up to 660 rows"));
}

TEST_F(CheckpointTest, RefusesTablesOfAnotherKind) {
  const auto refused = [&](const std::string& suffix, auto change, Code code,
                           const std::string& words) {
    model_ = TinyModel();
    change(model_.tensor(suffix));
    EXPECT_TRUE(fails(open(), code, words));
  };
  refused(
      "1.engram.embed.weight", [](Tensor& t) { t.dtype = "F8_E4M3FNUZ"; }, Code::unsupported,
      "half the value");
  refused(
      "1.engram.embed.weight", [](Tensor& t) { t.dtype = "I8"; }, Code::unsupported,
      "no known table format has dtype I8 [660, 32] with scale F8_E8M0");
  refused(
      "1.engram.embed.scale", [](Tensor& t) { t.dtype = "I8"; }, Code::unsupported,
      "expected dtype F8_E8M0 or U8");
  // One scalar scale for the whole table.
  refused(
      "1.engram.embed.scale",
      [](Tensor& t) {
        t.shape = {1, 1};
        t.bytes = "x";
      },
      Code::corrupt, "expected shape [660, 1], found [1, 1]");
  refused(
      "1.engram.embed.weight", [](Tensor& t) { t.shape = {660 * 32}; }, Code::corrupt,
      "two dimensions");
  refused(
      "1.engram.embed.weight",
      [](Tensor& t) {
        t.shape = {330, 64};
      },
      Code::corrupt, "660");
  refused(
      "1.engram.wkv.weight", [](Tensor& t) { std::swap(t.shape[0], t.shape[1]); }, Code::corrupt,
      "expected shape [48, 192]");
  // 128 x 128 tiles, as other tensors of other models have.
  refused(
      "1.engram.wkv.scale",
      [](Tensor& t) {
        t.shape = {1, 2};
        t.bytes = "xx";
      },
      Code::corrupt, "expected shape [2, 6]");
  refused(
      "1.engram.q_weight", [](Tensor& t) { t.dtype = "F16"; }, Code::unsupported,
      "expected dtype BF16");
  refused(
      "1.engram.k_weight", [](Tensor& t) { t.shape = {32}; }, Code::corrupt, "[2, 16]");
}

TEST_F(CheckpointTest, RefusesOneTensorUnderTwoNames) {
  model_.shards[0].push_back(model_.tensor("layers.1.engram.embed.weight"));
  model_.shards[0].back().name = "model.layers.1.engram.embed.weight";
  EXPECT_TRUE(fails(open(), Code::corrupt, "under two names"));
}

TEST_F(CheckpointTest, RefusesAnIndexThatLies) {
  const auto with_index = [&](const std::string& index) {
    model_.write(folder_);
    test::write_file(folder_ / "model.safetensors.index.json", index);
    return Checkpoint::open(folder_.path());
  };
  const std::string name = "\"layers.1.engram.embed.weight\":\"";
  std::string index = model_.index_json();
  const auto replace = [&](const std::string& target) {
    std::string changed = index;
    const std::size_t at = changed.find(name) + name.size();
    return changed.replace(at, changed.find('"', at) - at, target);
  };
  EXPECT_TRUE(fails(with_index(replace("../elsewhere.safetensors")), Code::corrupt,
                    "outside the model directory"));
  EXPECT_TRUE(fails(with_index(replace("/etc/passwd")), Code::corrupt, "outside"));
  EXPECT_TRUE(fails(with_index(replace("none.safetensors")), Code::not_found, "none.safetensors"));
  EXPECT_TRUE(fails(with_index(replace(TinyModel::shard_name(1))), Code::corrupt,
                    "the index says it holds 'layers.1.engram.embed.weight', but it does not"));
  EXPECT_TRUE(fails(with_index("{}"), Code::corrupt, "'weight_map' is missing"));
  EXPECT_TRUE(fails(with_index(R"({"weight_map":{"a":1}})"), Code::corrupt, "a string"));
  EXPECT_TRUE(fails(with_index(R"({"weight_map":{"a":"x","a":"y"}})"), Code::corrupt, "twice"));
  EXPECT_TRUE(fails(with_index(R"({"weight_map":{}})"), Code::not_found,
                    "no tensor 'layers.1.engram.embed.weight'"));
}

TEST_F(CheckpointTest, RefusesATruncatedShardAtEveryLength) {
  model_.write(folder_);
  const std::string path = folder_ / TinyModel::shard_name(0);
  for (std::uintmax_t length = fs::file_size(path); length-- > 0;) {
    fs::resize_file(path, length);
    ASSERT_TRUE(fails(Checkpoint::open(folder_.path()), Code::corrupt, "")) << length;
  }
}

// Whatever one flipped bit of a shard's header does, the right bytes are served or none.
TEST_F(CheckpointTest, ServesTheRightBytesOrNoneUnderEveryBitFlipOfAHeader) {
  model_.write(folder_);
  const auto truth = Checkpoint::open(folder_.path());
  ASSERT_TRUE(is_ok(truth));
  const std::string path = folder_ / TinyModel::shard_name(0);
  const std::string whole = test::read_file(path);
  const std::size_t header_bits = 8 * truth->tables()[0].weight.offset_bytes;
  for (std::size_t bit = 0; bit < header_bits; ++bit) {
    std::string damaged = whole;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    test::write_file(path, damaged);
    const auto opened = Checkpoint::open(folder_.path());
    if (!opened) continue;
    const auto same = [](const TensorExtent& found, const TensorExtent& expected) {
      return found.offset_bytes == expected.offset_bytes && found.shape == expected.shape &&
             found.size_bytes == expected.size_bytes;
    };
    const TableSource& table = opened->tables()[0];
    EXPECT_TRUE(same(table.weight, truth->tables()[0].weight)) << bit;
    EXPECT_EQ(table.layout.format, truth->tables()[0].layout.format) << bit;
    EXPECT_TRUE(table.scale && same(*table.scale, *truth->tables()[0].scale)) << bit;
    if (opened->gates().empty()) continue;  // a gate tensor lost its name and is reported missing
    const GateSource& gate = opened->gates()[0];
    EXPECT_TRUE(same(gate.wkv, truth->gates()[0].wkv)) << bit;
    EXPECT_TRUE(same(gate.q_weight, truth->gates()[0].q_weight)) << bit;
    EXPECT_TRUE(same(gate.k_weight, truth->gates()[0].k_weight)) << bit;
  }
}

TEST_F(CheckpointTest, RefusesAppendedBytes) {
  model_.write(folder_);
  const std::string path = folder_ / TinyModel::shard_name(0);
  test::write_file(path, test::read_file(path) + "x");
  EXPECT_TRUE(fails(Checkpoint::open(folder_.path()), Code::corrupt, "1 bytes after the last"));
}

TEST_F(CheckpointTest, SaysWhatIsNotThere) {
  EXPECT_TRUE(
      fails(Checkpoint::open(folder_ / "none"), Code::not_found, "expected a model directory"));
  EXPECT_TRUE(fails(Checkpoint::open(folder_.path()), Code::not_found, "config.json"));
  test::write_file(folder_ / "config.json", model_.config_json());
  EXPECT_TRUE(fails(Checkpoint::open(folder_.path()), Code::not_found, "no model.safetensors"));
}

}  // namespace
}  // namespace engram
