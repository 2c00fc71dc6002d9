package wire

// Keys of messages.
const (
	Produce          = 0
	Fetch            = 1
	ListOffsets      = 2
	Metadata         = 3
	OffsetCommit     = 8
	OffsetFetch      = 9
	FindCoordinator  = 10
	JoinGroup        = 11
	Heartbeat        = 12
	LeaveGroup       = 13
	SyncGroup        = 14
	SASLHandshake    = 17
	APIVersions      = 18
	CreateTopics     = 19
	SASLAuthenticate = 36
)

// API is a kind of request with its answer.
type API struct {
	Key      int16
	Name     string
	Min, Max int16 // versions
	requests requests
	answers  answers
}

type (
	requests []layout
	answers  []layout
)

// layout is a shape from a version on.
type layout struct {
	since int16
	shape string
}

// Parts of answers.
const (
	brokers = "[4s4s]"
	// fetched is what a partition has, before its batches.
	fetched = "42888[88]"
	// seen5 is of a partition: error, number, leader, and replicas, those in sync, and
	// those that are away.
	seen  = "[244[4][4]]"
	seen5 = "[244[4][4][4]]"
	seen7 = "[2444[4][4][4]]"
)

// apis are all messages that are let through, by Kafka's message definitions
// (clients/src/main/resources/common/message). None is of a flexible version, and there
// are no members of groups with a name of their own (instance ids).
var apis = []API{
	{
		Produce, "Produce", 3, 8, requests{{3, "xa4[t[pr]]"}},
		answers{{3, "[s[4288]]4"}, {5, "[s[42888]]4"}, {8, "[s[42888[4s]s]]4"}},
	},
	{
		Fetch, "Fetch", 4, 11,
		requests{{4, "4w4c1[t[p8c]]"}, {5, "4w4c1[t[p88c]]"}, {7, "4w4c144[t[p88c]][t[p]]"}, {9, "4w4c144[t[p488c]][t[p]]"}, {11, "4w4c144[t[p488c]][t[p]]s"}},
		answers{{4, "4[s[4288[88]r]]"}, {5, "4[s[" + fetched + "r]]"}, {7, "424[s[" + fetched + "r]]"}, {11, "424[s[" + fetched + "4r]]"}},
	},
	{
		ListOffsets, "ListOffsets", 1, 5, requests{{1, "4[t[p8]]"}, {2, "41[t[p8]]"}, {4, "41[t[p48]]"}},
		answers{{1, "[s[4288]]"}, {2, "4[s[4288]]"}, {4, "4[s[42884]]"}},
	},
	{
		Metadata, "Metadata", 0, 8, requests{{0, "[s]"}, {4, "[s]1"}, {8, "[s]111"}},
		answers{
			{0, "[4s4][2s" + seen + "]"}, {1, brokers + "4[2s1" + seen + "]"}, {2, brokers + "s4[2s1" + seen + "]"}, {3, "4" + brokers + "s4[2s1" + seen + "]"},
			{5, "4" + brokers + "s4[2s1" + seen5 + "]"}, {7, "4" + brokers + "s4[2s1" + seen7 + "]"}, {8, "4" + brokers + "s4[2s1" + seen7 + "4]4"},
		},
	},
	{
		OffsetCommit, "OffsetCommit", 2, 6, requests{{2, "g4s8[t[p8s]]"}, {5, "g4s[t[p8s]]"}, {6, "g4s[t[p84s]]"}},
		answers{{2, "[s[42]]"}, {3, "4[s[42]]"}},
	},
	{
		OffsetFetch, "OffsetFetch", 1, 5, requests{{1, "g[t[p]]"}},
		answers{{1, "[s[48s2]]"}, {2, "[s[48s2]]2"}, {3, "4[s[48s2]]2"}, {5, "4[s[484s2]]2"}},
	},
	{FindCoordinator, "FindCoordinator", 0, 2, requests{{0, "s"}, {1, "sk"}}, answers{{0, "24s4"}, {1, "42s4s4"}}},
	{JoinGroup, "JoinGroup", 1, 4, requests{{1, "g4jsy[oS]"}}, answers{{1, "24sss[sS]"}, {2, "424sss[sS]"}}},
	{Heartbeat, "Heartbeat", 0, 2, requests{{0, "g4s"}}, answers{{0, "2"}, {1, "42"}}},
	{LeaveGroup, "LeaveGroup", 0, 2, requests{{0, "gs"}}, answers{{0, "2"}, {1, "42"}}},
	{SyncGroup, "SyncGroup", 0, 2, requests{{0, "g4s[sA]"}}, answers{{0, "2A"}, {1, "42A"}}},
	{SASLHandshake, "SaslHandshake", 1, 1, requests{{1, "s"}}, answers{{1, "2[s]"}}},
	{APIVersions, "ApiVersions", 0, 2, requests{{0, ""}}, answers{{0, "2[V]"}, {1, "2[V]4"}}},
	{CreateTopics, "CreateTopics", 0, 4, requests{{0, "[tn2[4[4]][ds]]4"}, {1, "[tn2[4[4]][ds]]41"}}, answers{{0, "[s2]"}, {1, "[s2s]"}, {2, "4[s2s]"}}},
	{SASLAuthenticate, "SaslAuthenticate", 0, 1, requests{{0, "b"}}, answers{{0, "2sb"}, {1, "2sb8"}}},
}

// Known are all messages that are let through.
func Known() []API { return apis }

// Find returns a kind of message, if the version is one that is let through.
func Find(key, version int16) (*API, error) {
	for i := range apis {
		a := &apis[i]
		if a.Key != key {
			continue
		}
		if version < a.Min || version > a.Max {
			return nil, malformed("version %d of %s, want %d to %d", version, a.Name, a.Min, a.Max)
		}
		return a, nil
	}
	return nil, malformed("a message of kind %d, which nothing here needs", key)
}

// Request is the shape of a request's body.
func (a *API) Request(version int16) string { return at(a.requests, version) }

// Answer is the shape of an answer's body.
func (a *API) Answer(version int16) string { return at(a.answers, version) }

func at(all []layout, version int16) (shape string) {
	for _, l := range all {
		if l.since <= version {
			shape = l.shape
		}
	}
	return shape
}

// Members' blobs begin with these, and may go on.
const (
	subscription = "2[s]"
	assignment   = "2[s[4]]b"
)

// CheckMember wants what members of a group tell each other (fields S and A) to hold as
// many elements as it claims. Nothing is said by no bytes.
func CheckMember(kind byte, in []byte) error {
	if len(in) == 0 {
		return nil
	}
	shape := subscription
	if kind == 'A' {
		shape = assignment
	}
	return (&walker{in: in}).fields(shape)
}
