package telemetry

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/switchyard/switchyard/internal/flagvalue"
	"github.com/switchyard/switchyard/kernels/cuda"
)

// GPUs are the figures of the GPUs that this process computes with. A figure that a
// GPU does not say is not there.
type GPUs struct {
	mu    sync.Mutex
	last  int
	reads map[int]gpuRead
}

type gpuRead struct {
	gpu  string
	read func() GPUState
}

// GPUState is what is known of one GPU.
type GPUState struct {
	cuda.Facts
	// Avoid says that replicas on it ask to be passed by.
	Avoid bool
	// Noted counts the driver's errors by number, since this process's start.
	Noted map[uint64]int
}

// Follow shows what read returns for a GPU by its index, until stop is called. Several
// replicas of a process that follow the same GPU show it once.
func (g *GPUs) Follow(index int, read func() GPUState) (stop func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.last++
	id := g.last
	g.reads[id] = gpuRead{strconv.Itoa(index), read}
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.reads, id)
	}
}

// figure is a metric whose value is a fact.
type figure struct {
	fact  cuda.FactName
	desc  *prometheus.Desc
	value string // of the second label; empty: there is none
	kind  prometheus.ValueType
}

func gpuDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(prometheus.BuildFQName(namespace, "gpu", name), help, append([]string{"gpu"}, labels...), nil)
}

var (
	gpuMemory = gpuDesc("memory_bytes", "Memory of the GPU, by state: used (by all processes) or free.", "state")
	gpuBusy   = gpuDesc("busy_ratio", "Share of the last moment in which the GPU had work, by part: compute or memory.", "part")
	gpuPower  = gpuDesc("power_watts", "Power that the GPU takes.")
	gpuEnergy = gpuDesc("energy_joules_total", "Energy that the GPU has taken since its driver was loaded.")
	gpuHeat   = gpuDesc("temperature_celsius", "Temperature of the GPU.")
	gpuECC    = gpuDesc("ecc_errors_total", "Errors of the GPU's memory since its driver was loaded, by kind: corrected or uncorrected.", "kind")
	gpuPCIe   = gpuDesc("pcie_bytes_per_second", "Traffic on the GPU's bus, by direction: in (to the GPU) or out.", "direction")
	gpuSlowed = gpuDesc("slowed", "1 if the GPU's clock is lower than it could be for this reason, else 0.", "reason")
	gpuAvoid  = gpuDesc("throttled", "1 if the GPU has been slowed by heat or for want of power for most of the recent time, so that replicas on it ask to be avoided, else 0.")
	gpuXids   = gpuDesc("xid_errors_total", "Errors that the driver has noted since this process's start, by number.", "xid")
)

// figures are the metrics that are one number of a GPU's.
var figures = []figure{
	{cuda.MemoryUsed, gpuMemory, "used", prometheus.GaugeValue},
	{cuda.MemoryFree, gpuMemory, "free", prometheus.GaugeValue},
	{cuda.Busy, gpuBusy, "compute", prometheus.GaugeValue},
	{cuda.MemoryBusy, gpuBusy, "memory", prometheus.GaugeValue},
	{cuda.Power, gpuPower, "", prometheus.GaugeValue},
	{cuda.Energy, gpuEnergy, "", prometheus.CounterValue},
	{cuda.Temperature, gpuHeat, "", prometheus.GaugeValue},
	{cuda.Corrected, gpuECC, "corrected", prometheus.CounterValue},
	{cuda.Uncorrected, gpuECC, "uncorrected", prometheus.CounterValue},
	{cuda.PCIeIn, gpuPCIe, "in", prometheus.GaugeValue},
	{cuda.PCIeOut, gpuPCIe, "out", prometheus.GaugeValue},
}

// Describe is for the registry.
func (g *GPUs) Describe(out chan<- *prometheus.Desc) {
	for _, f := range figures {
		out <- f.desc
	}
	out <- gpuSlowed
	out <- gpuAvoid
	out <- gpuXids
}

// Collect is for the registry.
func (g *GPUs) Collect(out chan<- prometheus.Metric) {
	g.mu.Lock()
	reads := slices.Collect(maps.Values(g.reads))
	g.mu.Unlock()
	told := map[string]bool{}
	for _, r := range reads {
		if !told[r.gpu] {
			told[r.gpu] = true
			collectGPU(out, r.gpu, r.read())
		}
	}
}

func collectGPU(out chan<- prometheus.Metric, gpu string, s GPUState) {
	for _, f := range figures {
		if v, says := s.Values[f.fact]; says {
			labels := []string{gpu}
			if f.value != "" {
				labels = append(labels, f.value)
			}
			out <- prometheus.MustNewConstMetric(f.desc, f.kind, v, labels...)
		}
	}
	if _, says := s.Values[cuda.Slowed]; says {
		out <- prometheus.MustNewConstMetric(gpuAvoid, prometheus.GaugeValue, flag(s.Avoid), gpu)
		for _, reason := range cuda.ReasonNames() {
			out <- prometheus.MustNewConstMetric(gpuSlowed, prometheus.GaugeValue, flag(s.Reasons().Has(reason)), gpu, reason)
		}
	}
	for xid, n := range s.Noted {
		out <- prometheus.MustNewConstMetric(gpuXids, prometheus.CounterValue, float64(n), gpu, strconv.FormatUint(xid, 10))
	}
}

func flag(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// Config is what an operator sets about telemetry.
type Config struct {
	// OTLPEndpoint is where traces go by OTLP over HTTP: "http://host:4318" or "https://…".
	// Empty: no traces are made, and they cost nothing.
	OTLPEndpoint string
	// TraceSample is the share of new traces that is kept, from 0 to 1. A
	// request that comes with a trace of its own keeps that one's decision.
	TraceSample float64
	// MetricsAddr is where /metrics, /healthz and /readyz are served; empty: nowhere.
	MetricsAddr string
	// PprofAddr is where Go's profiles are served; empty: at MetricsAddr if that is on the
	// loopback, else nowhere.
	PprofAddr string
	// ServiceName is the process's name in traces and metrics.
	ServiceName string
	// Model is the model's name, a label of every metric; empty: no label.
	Model string
	// Version and NumericClass tell builds apart.
	Version, NumericClass string
	Kernels               string // of the processor
	// Device is the paced device whose times this process's figures are: a label
	// of every metric, and in traces; empty: none.
	Device string
	// Detail is how far metrics are told apart that grow with a model; empty: ByExpert.
	Detail Detail
}

// Validate says how to fix what cannot work.
func (c Config) Validate() error {
	if !(c.TraceSample >= 0 && c.TraceSample <= 1) { // so that NaN is refused, too
		return fmt.Errorf("--trace-sample is %g; it is a ratio from 0 to 1", c.TraceSample)
	}
	if err := c.Detail.check(); err != nil {
		return err
	}
	if c.OTLPEndpoint != "" {
		if _, err := parseEndpoint(c.OTLPEndpoint); err != nil {
			return err
		}
	}
	return errors.Join(checkListen("metrics-addr", c.MetricsAddr), checkListen("pprof-addr", c.PprofAddr))
}

func checkListen(flag, address string) error {
	if address == "" {
		return nil
	}
	if _, _, err := flagvalue.ListenAddress(address); err != nil {
		return fmt.Errorf("--%s is %q; %w", flag, address, err)
	}
	return nil
}

// endpoint is a parsed OTLPEndpoint.
type endpoint struct {
	secure bool
	host   string // host, or host:port
	path   string // empty: the one that collectors have
}

func parseEndpoint(text string) (e endpoint, err error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return e, fmt.Errorf("--otlp-endpoint %q is none of http://host:4318, https://host:4318", text)
	}
	if u.Port() != "" {
		if err := flagvalue.CheckPort(u.Port()); err != nil {
			return e, fmt.Errorf("--otlp-endpoint is %q; %w", text, err)
		}
	}
	return endpoint{secure: u.Scheme == "https", host: u.Host, path: strings.TrimSuffix(u.Path, "/")}, nil
}
