# The table of ONNX operator schemas, generated from the installed onnx package.

set(generator ${PROJECT_SOURCE_DIR}/tools/gen_onnx_schemas.py)
set(table ${OPBRIDGE_GENERATED_DIR}/opbridge_onnx_schemas.inc)
if(EXISTS ${generator})
  execute_process(
    COMMAND ${Python_EXECUTABLE} -c
            "import importlib.util as u; print(u.find_spec('onnx').submodule_search_locations[0], end='')"
    OUTPUT_VARIABLE onnx_dir COMMAND_ERROR_IS_FATAL ANY)
  file(MAKE_DIRECTORY ${OPBRIDGE_GENERATED_DIR})
  add_custom_command(
    OUTPUT ${table}
    COMMAND ${Python_EXECUTABLE} ${generator} ${table}
    DEPENDS ${generator} ${onnx_dir}/version.py
    COMMENT "Generating the table of ONNX schemas"
    VERBATIM)
  target_sources(opbridge_core PRIVATE ${table})
endif()
