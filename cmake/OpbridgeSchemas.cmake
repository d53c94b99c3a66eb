# The table of ONNX operator schemas, generated from the installed onnx package.

set(generator ${PROJECT_SOURCE_DIR}/tools/gen_onnx_schemas.py)
set(table ${OPBRIDGE_GENERATED_DIR}/opbridge_onnx_schemas.inc)
if(EXISTS ${generator})
  file(MAKE_DIRECTORY ${OPBRIDGE_GENERATED_DIR})
  add_custom_command(
    OUTPUT ${table}
    COMMAND ${Python_EXECUTABLE} ${generator} ${table}
    DEPENDS ${generator}
    COMMENT "Generating the table of ONNX schemas"
    VERBATIM)
  target_sources(opbridge_core PRIVATE ${table})
endif()
