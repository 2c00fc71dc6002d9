// A libnvidia-ml for the tests of package nvml: one GPU with figures of its own. The
// environment says what a function answers instead of success: FAKE_nvmlInit_v2=9, say;
// and FAKE_XID is an error that is noted once.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { timed_out = 10, not_found = 6, gpu = 7, event_set = 8, xid_event = 8 };

static int setting(const char *name) {
	char full[96];
	snprintf(full, sizeof full, "FAKE_%s", name);
	const char *v = getenv(full);
	return v ? atoi(v) : 0;
}

#define ANSWER do { int code = setting(__func__); if (code) return code; } while (0)
#define OF_GPU do { ANSWER; if (d != (void *)gpu) return 2; } while (0)

int nvmlInit_v2(void) { ANSWER; return 0; }
const char *nvmlErrorString(int code) { return code == 15 ? "lost" : "an error"; }

int nvmlDeviceGetHandleByPciBusId_v2(const char *id, void **d) {
	ANSWER;
	*d = (void *)gpu;
	return strcmp(id, "0000:3b:00.0") ? not_found : 0;
}

struct memory { unsigned long long total, free, used; };
int nvmlDeviceGetMemoryInfo(void *d, struct memory *m) {
	OF_GPU;
	*m = (struct memory){ 100, 60, 40 };
	return 0;
}

struct utilization { unsigned gpu, memory; };
int nvmlDeviceGetUtilizationRates(void *d, struct utilization *u) {
	OF_GPU;
	*u = (struct utilization){ 75, 50 };
	return 0;
}

int nvmlDeviceGetPowerUsage(void *d, unsigned *milliwatts) { OF_GPU; *milliwatts = 350500; return 0; }
int nvmlDeviceGetTemperature(void *d, int sensor, unsigned *celsius) { OF_GPU; *celsius = sensor ? 0 : 61; return 0; }
int nvmlDeviceGetCurrentClocksThrottleReasons(void *d, unsigned long long *bits) { OF_GPU; *bits = 0x44; return 0; }
int nvmlDeviceGetTotalEccErrors(void *d, int kind, int since, unsigned long long *n) {
	OF_GPU;
	*n = since ? 0 : kind ? 2 : 5; // of the driver's time; 0: corrected
	return 0;
}
int nvmlDeviceGetPcieThroughput(void *d, int counter, unsigned *kilobytes) { OF_GPU; *kilobytes = counter ? 30 : 20; return 0; }

#ifndef OLD
int nvmlDeviceGetTotalEnergyConsumption(void *d, unsigned long long *millijoules) { OF_GPU; *millijoules = 1234500; return 0; }
#endif

int nvmlEventSetCreate(void **set) { ANSWER; *set = (void *)event_set; return 0; }
int nvmlDeviceRegisterEvents(void *d, unsigned long long types, void *set) {
	OF_GPU;
	return types == xid_event && set == (void *)event_set ? 0 : 2;
}

struct event { void *device; unsigned long long type, data; unsigned gpu_instance, compute_instance; };
int nvmlEventSetWait_v2(void *set, struct event *e, unsigned milliseconds) {
	ANSWER;
	static int told;
	int xid = setting("XID");
	if (set != (void *)event_set || milliseconds || xid == told) return timed_out;
	told = xid;
	*e = (struct event){ (void *)gpu, xid_event, xid, ~0u, ~0u };
	return 0;
}
