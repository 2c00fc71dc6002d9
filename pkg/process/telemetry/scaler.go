package telemetry

import "github.com/prometheus/client_golang/prometheus"

// ScalerMetrics are of scalers: what they know, decide, and why. Of several, only
// the one that plans tells of the plan.
type ScalerMetrics struct {
	// Scalers are "active" or "standby".
	Scalers *Mirror
	// CV and Balancedness are of each layer's replicas' rows, by the plan that was
	// decided on last.
	CV, Balancedness *Mirror
	// Replicas are wanted "warm", "kept" or "cold".
	Replicas *Mirror
	// PlanAge is how long ago each layer's plan changed, in seconds, if this scaler
	// changed it.
	PlanAge *Mirror
	// HostsWanted is how many expert hosts there should be for the work that there is.
	HostsWanted *Table
	// Decision observes the seconds of a decision on all layers.
	Decision prometheus.Histogram

	rebalances *prometheus.CounterVec
	trials     *prometheus.CounterVec
	samples    *prometheus.CounterVec
	refused    *prometheus.CounterVec
}

func newScalerMetrics() *ScalerMetrics {
	return &ScalerMetrics{
		Scalers:      newMirror("scalers", "Scalers, by state: active (it has the planner's lease) or standby.", "state"),
		CV:           newMirror("layer_replica_cv_ratio", "Coefficient of variation of the rows of a layer's replicas, by the plan decided on last.", "layer"),
		Balancedness: newMirror("layer_balancedness_ratio", "Mean by maximum of the rows of a layer's replicas, by the plan decided on last.", "layer"),
		Replicas:     newMirror("planned_replicas", "Replicas of experts in the plan decided on last: warm, kept (loaded, and not in the group) or cold.", "want"),
		PlanAge:      newMirror("plan_age_seconds", "Time since a layer's plan changed, of those that this scaler has changed.", "layer"),
		HostsWanted:  newTable("expert_hosts_wanted", "Expert hosts that there should be: what they have to do would keep so many busy for seven tenths of the time, and all experts fit."),
		Decision:     histogram("plan_decision_seconds", "Time of a decision on the plans of all layers.", fineBuckets),
		rebalances:   counters("rebalances_total", "Changes of layers' plans, by cause; one change may have several.", "cause"),
		trials:       counters("plan_trials_total", "Changes of layers' plans that were made for speed, by what came of them.", "verdict"),
		samples:      counters("scaler_samples_total", "Load samples that came to the scaler: taken, repeated, or missing by the numbers of others.", "outcome"),
		refused:      counters("scaler_refused_samples_total", "Load samples that count for nothing, by what is wrong with them.", "kind"),
	}
}

func (m *ScalerMetrics) all() []prometheus.Collector {
	return []prometheus.Collector{m.Scalers, m.CV, m.Balancedness, m.Replicas, m.PlanAge, m.HostsWanted, m.Decision, m.rebalances, m.trials, m.samples, m.refused}
}

// Rebalances counts changes of layers' plans by a cause.
func (m *ScalerMetrics) Rebalances(cause string) prometheus.Counter {
	return m.rebalances.WithLabelValues(cause)
}

// Trials counts changes that were made for speed by what came of them.
func (m *ScalerMetrics) Trials(verdict string) prometheus.Counter {
	return m.trials.WithLabelValues(verdict)
}

// Samples counts samples by what became of them.
func (m *ScalerMetrics) Samples(outcome string) prometheus.Counter {
	return m.samples.WithLabelValues(outcome)
}

// Refused counts samples by what is wrong with them.
func (m *ScalerMetrics) Refused(kind string) prometheus.Counter {
	return m.refused.WithLabelValues(kind)
}
