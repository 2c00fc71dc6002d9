package rights

import (
	"github.com/switchyard/switchyard/schemas"
)

// names are one model's subjects, and those of JetStream's API for its streams.
type names struct {
	schemas.Subjects
	streams schemas.Streams
	layers  []int
}

func newNames(prefix string, m Model) names {
	s := schemas.NewSubjects(prefix, m.Name)
	return names{Subjects: s, streams: schemas.Streams{Subjects: s, AllRows: true}, layers: m.MoELayers}
}

// under is every subject that begins so.
func under(subject string) string { return subject + ".>" }

// tenantPrompts are the subjects of a tenant's prompts, and those of ask, of all classes.
func (n names) tenantPrompts(tenant string) []string {
	every := schemas.Flow{Tenant: tenant, Class: "*"}
	return []string{n.AskOf(every), n.PromptOf(every)}
}

// keys is every key of a bucket; key is one.
func (n names) keys(kind string) string     { return under("$KV." + n.streams.Bucket(kind)) }
func (n names) key(kind, key string) string { return "$KV." + n.streams.Bucket(kind) + "." + key }

// bucket is the stream that keeps a bucket.
func (n names) bucket(kind string) string { return schemas.BucketStream(n.streams.Bucket(kind)) }

// weights is the stream that keeps the model's objects.
func (n names) weights() string { return "OBJ_" + n.streams.Bucket("weights") }

// tensors are the memory streams.
func (n names) tensors() []string { return named(n.streams.Tensors(n.layers)) }

func named(specs []schemas.StreamSpec) (streams []string) {
	for _, spec := range specs {
		streams = append(streams, spec.Name)
	}
	return streams
}

// all are the streams that every service makes if they are missing.
func (n names) all() []string {
	streams := append(named(n.streams.Durable()), n.tensors()...)
	for _, kind := range []string{"members", "plans", "functions", "leases", "trials"} {
		streams = append(streams, n.bucket(kind))
	}
	return streams
}

// api is a subject of JetStream's API.
func api(call, stream string) string { return "$JS.API." + call + "." + stream }

func apis(call string, streams ...string) []string {
	subjects := make([]string, len(streams))
	for i, stream := range streams {
		subjects[i] = api(call, stream)
	}
	return subjects
}

// work is taking messages of a stream and settling them.
func work(streams ...string) (subjects []string) {
	for _, stream := range streams {
		subjects = append(subjects, under(api("CONSUMER.CREATE", stream)), under(api("CONSUMER.MSG.NEXT", stream)), under("$JS.ACK."+stream))
	}
	return subjects
}

// follow is reading a stream from a place on, by a consumer of one's own.
func follow(stream string) []string {
	return append(watch(stream), under(api("CONSUMER.MSG.NEXT", stream)))
}

// watch is reading a bucket's keys as they change, by a consumer that pushes.
func watch(stream string) []string {
	return []string{under(api("CONSUMER.CREATE", stream)), under(api("CONSUMER.DELETE", stream))}
}

// look is finding a bucket and watching it.
func (n names) look(kind string) []string {
	return append(watch(n.bucket(kind)), api("STREAM.INFO", n.bucket(kind)))
}

// get is reading single keys of a bucket.
func get(stream string) string { return under(api("DIRECT.GET", stream)) }

// experts are the streams of routed rows.
func (n names) experts() (streams []string) {
	for _, layer := range n.layers {
		streams = append(streams, n.streams.Expert(layer).Name)
	}
	return streams
}
