package members

import (
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Names under which an attention replica announces how many KV pages it has, and how many
// positions a sequence of its may take.
const (
	KVPages = "kv_pages"
	Context = "context"
)

// What an attention replica announces of its work since its start: steps, their rows and the
// tokens that they made; sequences that have their first token, that have ended and that have
// failed, and how many seconds those tokens and ends took.
const (
	Steps             = "steps_total"
	StepRows          = "step_rows_total"
	Tokens            = "tokens_total"
	FirstTokens       = "first_tokens_total"
	FirstTokenSeconds = "first_token_seconds_total"
	Finished          = "requests_finished_total"
	RequestSeconds    = "request_seconds_total"
	Failed            = "requests_failed_total"
)

// What a tokenizer announces of its work since its start: prompts that it has taken in and
// refused, and chunks of answers that it has sent.
const (
	Requests = "requests_total"
	Refused  = "refused_total"
	Chunks   = "chunks_total"
)

// Active and KVPagesUsed are the names under which it announces how many sequences it has, and
// how many of its pages they use.
const (
	Active      = "requests_active"
	KVPagesUsed = "kv_pages_used"
)

// What an expert host announces of its work since its start: dispatches that it has
// computed, their routed rows, and the seconds in which it computed any.
const (
	HostMessages = "dispatches_total"
	HostRows     = "rows_total"
	HostSeconds  = "busy_seconds_total"
	// Experts whose loading has begun, and those whose loading has ended, together.
	HostLoads = "loads_total"
	// Gigabytes of experts in a host's memory times seconds, and what of these rows have taken.
	HostHeld  = "memory_gb_seconds_total"
	HostTaken = "memory_taken_gb_seconds_total"
	// WantedWarm is how many functions plans want warm on it.
	WantedWarm = "functions_wanted_warm"
	// Offloads says (1) that it serves more than it holds, and loads experts for their rows.
	Offloads = "offloads"
)

// RoutedRows is the name under which a gate announces how many rows it has routed.
const RoutedRows = "routed_rows_total"

// What a scaler announces: whether it has the planner's lease (1), and, behind ScalingBy,
// the name of what it decides by.
const (
	Planning  = "planning"
	ScalingBy = "scaling_by_"
	// Changes for speed that helped, and those that were undone because they did not.
	TrialsHelped = "plan_trials_helped_total"
	TrialsUndone = "plan_trials_undone_total"
	// Doubted begins the names of gates that told of rows that no hosts have computed, with how
	// often they did.
	Doubted = "doubted_gate_"
)

// What an attention replica announces of a brownout: that one may come (1), the thresholds that it
// stamps on its steps, and whether steps take longer than they are to at the lowest that may be
// (1), so that no request is to come.
const (
	Browns          = "brownout"
	BrownoutPrefill = "brownout_threshold_prefill"
	BrownoutDecode  = "brownout_threshold_decode"
	BrownoutFloored = "brownout_floored"
)

// DeviceThrottled is the name under which a replica asks to be avoided (1), or not (0),
// because its device throttles. Gates and planners hear it of expert hosts, and attention
// replicas of one another.
const DeviceThrottled = "device_throttled"

// LargestKV returns how many KV pages the largest of a model's live attention
// replicas has; 0 if none has said so.
func LargestKV(all []*pb.Member, model uint64) (pages float64) { return most(all, model, KVPages) }

// LongestContext returns how many positions the one with most gives a sequence; 0 if none has
// said so.
func LongestContext(all []*pb.Member, model uint64) (positions float64) {
	return most(all, model, Context)
}

func most(all []*pb.Member, model uint64, name string) (most float64) {
	for _, m := range OfService(all, "attention") {
		if n := m.Stats[name]; m.ModelHash == model && m.Ready && !m.Draining && n > most { // which NaN is not
			most = n
		}
	}
	return most
}

// StepSeconds is the name under which an attention replica announces how long one
// token's step may take before it counts as late.
const StepSeconds = "step_patience_seconds"

// longestStep bounds what one replica says of it.
const longestStep = 600

// LongestStep is that of the slowest ready attention replica, in seconds.
func LongestStep(all []*pb.Member) (seconds float64) {
	for _, m := range OfService(all, "attention") {
		if n := m.Stats[StepSeconds]; m.Ready && !m.Draining && n > seconds {
			seconds = min(n, longestStep)
		}
	}
	return seconds
}

// Names under which an attention replica announces how many sequences more it can
// begin at once, and how many wait in it for their turn.
const (
	Places  = "free_places"
	Waiting = "requests_waiting"
)

// InLine is the name under which an attention replica announces how many of its active
// sequences wait for KV pages.
const InLine = "requests_in_line"

// FreePlaces returns how many sequences the ready attention replicas can begin at once.
func FreePlaces(all []*pb.Member) (places int) {
	for _, m := range OfService(all, "attention") {
		places += freePlaces(m)
	}
	return places
}

func freePlaces(m *pb.Member) int {
	if !m.Ready || m.Draining {
		return 0
	}
	return count(m.Stats[Places])
}

// Samples reports whether all live attention replicas of a model know so much of sampling
// (schemas.Sampling): one that does not would take another request's for it.
func Samples(all []*pb.Member, model uint64, level uint32) bool {
	for _, m := range OfService(all, "attention") {
		if m.ModelHash == model && m.Sampling < level {
			return false
		}
	}
	return true
}

// PlacesElsewhere returns how many sequences the siblings of an attention replica can begin
// at once, and how many KV pages each of those that can has at least. A sibling whose
// device throttles is not counted: work is not to be left to it.
func PlacesElsewhere(all []*pb.Member, self string) (places int, pages float64) {
	for _, m := range OfService(all, "attention") {
		n := freePlaces(m)
		if m.Id == self || n == 0 || m.Stats[DeviceThrottled] > 0 {
			continue
		}
		if has := m.Stats[KVPages]; places == 0 || has < pages {
			pages = has
		}
		places += n
	}
	return places, pages
}

// WaitingIn returns how many sequences wait in attention replicas for their turn.
func WaitingIn(all []*pb.Member) (n int) {
	for _, m := range OfService(all, "attention") {
		n += count(m.Stats[Waiting])
	}
	return n
}

// mostCounted bounds what one replica's word counts for.
const mostCounted = 4096

func count(said float64) int {
	if said > 0 { // which NaN is not
		return int(min(said, mostCounted))
	}
	return 0
}
