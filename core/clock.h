/* Time that only goes forward, for measuring how long things take. */
#ifndef CORE_CLOCK_H
#define CORE_CLOCK_H

#ifdef __cplusplus
extern "C" {
#endif

double clock_seconds(void); /* since some fixed moment */

#ifdef __cplusplus
}
#endif
#endif
