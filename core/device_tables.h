/* One table a backend; device.c lists them. */
#ifndef CORE_DEVICE_TABLES_H
#define CORE_DEVICE_TABLES_H

#include "core/device.h"

extern const device_table device_cpu;

#endif
