# Each header compiles alone, as C11 and as C++17:
#     cmake -DROOT=/path/to/checkout -DC_COMPILER=gcc -DCXX_COMPILER=g++ -DSCRATCH=FOLDER [-DFLAGS=...] -P tests/headers.cmake
# A header is included twice, so that a missing guard is found, with the project's warnings as errors. With SCRATCH it first tries a header that cannot
# compile alone.
cmake_minimum_required(VERSION 3.25)

set(warnings -Wall -Wextra -Wshadow -Wpointer-arith -Wvla -Werror -ffp-contract=off -fopenmp)
set(command_c ${C_COMPILER} -x c -std=c11 -pedantic -Wstrict-prototypes -Wmissing-prototypes)
set(command_cxx ${CXX_COMPILER} -x c++ -std=c++17)

# Compiles ROOT/header alone in the language; `out` is "" or the compiler's words.
function(compile_alone root header language out)
    set(unit ${SCRATCH}/unit.txt)
    file(WRITE ${unit} "#include \"${header}\"\n#include \"${header}\"\nextern int header_unit;\n")
    execute_process(COMMAND ${command_${language}} ${warnings} -D_GNU_SOURCE ${FLAGS} -I${root} -I${root}/include -fsyntax-only ${unit}
        RESULT_VARIABLE status OUTPUT_VARIABLE text ERROR_VARIABLE text)
    if(status EQUAL 0)
        set(text "")
    elseif(text STREQUAL "")
        set(text "the compiler failed: ${status}")
    endif()
    set(${out} "${text}" PARENT_SCOPE)
endfunction()

file(MAKE_DIRECTORY ${SCRATCH})
file(WRITE ${SCRATCH}/planted/bad.h "static inline size_t bad(void) { return 0; }\n")
foreach(language c cxx)
    compile_alone(${SCRATCH}/planted bad.h ${language} words)
    if(NOT words)
        message(FATAL_ERROR "the check of the headers is blind: a header that needs another one passed as ${language}")
    endif()
endforeach()

set(folders include cmd train infer model lora nf4 optim data offload ops core)
set(count 0)
set(failures "")
foreach(folder IN LISTS folders)
    file(GLOB headers RELATIVE ${ROOT} ${ROOT}/${folder}/*.h)
    foreach(header IN LISTS headers)
        string(REGEX REPLACE "^include/" "" header ${header})
        foreach(language c cxx)
            compile_alone(${ROOT} ${header} ${language} words)
            if(words)
                string(APPEND failures "\n${header} as ${language}:\n${words}")
            endif()
        endforeach()
        math(EXPR count "${count} + 1")
    endforeach()
endforeach()
if(failures)
    message(FATAL_ERROR "headers that do not compile alone:${failures}")
endif()
message(STATUS "headers: ${count} compile alone as C11 and C++17")
