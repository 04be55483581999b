# All sources look as .clang-format says:
#     cmake -DROOT=/path/to/checkout -P tests/format.cmake
# Versions of clang-format differ in taste: the one of Debian 12 is asked, and without it the test says "skipped".
cmake_minimum_required(VERSION 3.25)

find_program(CLANG_FORMAT clang-format-14)
if(NOT CLANG_FORMAT)
    message(STATUS "skipped: no clang-format-14")
    return()
endif()
set(folders include cmd train infer model lora nf4 optim data offload ops core tests bench)
set(sources "")
foreach(folder IN LISTS folders)
    file(GLOB found ${ROOT}/${folder}/*.c ${ROOT}/${folder}/*.cc ${ROOT}/${folder}/*.cu)
    list(APPEND sources ${found})
endforeach()
execute_process(COMMAND ${CLANG_FORMAT} --dry-run -Werror --style=file ${sources} RESULT_VARIABLE status ERROR_VARIABLE words)
if(NOT status EQUAL 0)
    message(FATAL_ERROR "clang-format -i is wanted:\n${words}")
endif()
list(LENGTH sources count)
message(STATUS "format: ${count} sources")
