# Writes OUTPUT, a C++ source that defines NAMESPACE::SYMBOL[] and SYMBOLBytes from the file INPUT.
file(READ ${INPUT} hex HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
file(WRITE ${OUTPUT} "#include <cstddef>
namespace ${NAMESPACE} {
extern const unsigned char ${SYMBOL}[];
extern const std::size_t ${SYMBOL}Bytes;
const unsigned char ${SYMBOL}[] = {${bytes}};
const std::size_t ${SYMBOL}Bytes = sizeof(${SYMBOL});
}  // namespace ${NAMESPACE}
")
