#include "device/build_files.h"

#include "device/text/words.h"

namespace mantissa::device {
namespace {

constexpr const char* kMakefile =
    R"M(# make: the library lib@p@.a, and the example. For another machine:
#   make CC=arm-none-eabi-gcc AR=arm-none-eabi-ar CFLAGS='-Os -mcpu=cortex-m4 -mthumb' lib@p@.a
CFLAGS ?= -O2
FLAGS = -std=c99 -Wall -Wextra -Wconversion -pedantic -ffunction-sections -fdata-sections -I.
SOURCES = @source@.c $(wildcard reference/*/*.c scalars/*.c device/*/*.c)
OBJECTS = $(SOURCES:.c=.o)

all: @example@

lib@p@.a: $(OBJECTS)
	$(AR) rcs $@ $(OBJECTS)

@example@: @example@.o lib@p@.a
	$(CC) $(CFLAGS) -Wl,--gc-sections $^ -o $@

%.o: %.c
	$(CC) $(FLAGS) $(CFLAGS) -c $< -o $@

clean:
	rm -f $(OBJECTS) @example@.o @example@ lib@p@.a

.PHONY: all clean
)M";

constexpr const char* kCmake = R"M(cmake_minimum_required(VERSION 3.16)
project(@p@ C)

file(GLOB sources reference/*/*.c scalars/*.c device/*/*.c)
add_library(@p@ STATIC @source@.c ${sources})
target_include_directories(@p@ PUBLIC ${CMAKE_CURRENT_SOURCE_DIR})
set_target_properties(@p@ PROPERTIES C_STANDARD 99 C_STANDARD_REQUIRED ON)
target_compile_options(@p@ PRIVATE -ffunction-sections -fdata-sections)

if(NOT CMAKE_CROSSCOMPILING)
  add_executable(@example@ @example@.c)
  target_link_libraries(@example@ PRIVATE @p@)
endif()
)M";

}  // namespace

void append_build_files(const std::string& prefix, const std::string& source,
                        const std::string& example, std::vector<SourceFile>& files) {
  const Words words = {{"p", prefix}, {"source", source}, {"example", example}};
  files.push_back({"Makefile", with_words(kMakefile, words)});
  files.push_back({"CMakeLists.txt", with_words(kCmake, words)});
}

}  // namespace mantissa::device
