# `cmake --install` installs the library, its headers, the command and the CMake package for C++ users. The
# contents of the Python wheel are the component "python", which only the wheel's build installs.

include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/opbridge)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/opbridgeConfig.cmake.in opbridgeConfig.cmake
                              INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(opbridgeConfigVersion.cmake COMPATIBILITY SameMinorVersion)

install(TARGETS opbridge_core EXPORT opbridgeTargets)
install(DIRECTORY include/opbridge TYPE INCLUDE)
install(EXPORT opbridgeTargets NAMESPACE opbridge:: DESTINATION ${package_dir})
install(FILES ${PROJECT_BINARY_DIR}/opbridgeConfig.cmake ${PROJECT_BINARY_DIR}/opbridgeConfigVersion.cmake
              cmake/Findlibzip.cmake
        DESTINATION ${package_dir})

if(TARGET opbridge)
  install(TARGETS opbridge)
  if(SKBUILD)
    install(TARGETS opbridge RUNTIME DESTINATION ${SKBUILD_SCRIPTS_DIR} COMPONENT python EXCLUDE_FROM_ALL)
  endif()
endif()
