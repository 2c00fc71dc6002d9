package catalog

import "github.com/switchyard/switchyard/schemas"

// ModelNames are one model's subjects, and those of JetStream's API for its streams.
type ModelNames struct {
	schemas.Subjects
	Streams schemas.Streams
	// Layers are the MoE layers, which have a stream each.
	Layers []int
}

// NewModelNames are those of a model under a prefix.
func NewModelNames(prefix, model string, layers []int) ModelNames {
	s := schemas.NewSubjects(prefix, model)
	return ModelNames{Subjects: s, Streams: schemas.Streams{Subjects: s, AllRows: true}, Layers: layers}
}

// Under is every subject that begins so.
func Under(subject string) string { return subject + ".>" }

// Keys is every key of a bucket.
func (n ModelNames) Keys(kind string) string { return Under("$KV." + n.Streams.Bucket(kind)) }

// Key is one of them.
func (n ModelNames) Key(kind, key string) string { return "$KV." + n.Streams.Bucket(kind) + "." + key }

// Bucket is the stream that keeps a bucket.
func (n ModelNames) Bucket(kind string) string { return schemas.BucketStream(n.Streams.Bucket(kind)) }

// Weights is the stream that keeps the model's objects.
func (n ModelNames) Weights() string { return "OBJ_" + n.Streams.Bucket("weights") }

func named(specs []schemas.StreamSpec) (streams []string) {
	for _, spec := range specs {
		streams = append(streams, spec.Name)
	}
	return streams
}

// All are the streams that every service makes if they are missing.
func (n ModelNames) All() []string {
	streams := append(named(n.Streams.Durable()), named(n.Streams.Tensors(n.Layers))...)
	for _, kind := range []string{"members", "plans", "functions", "leases", "brownout", "trials"} {
		streams = append(streams, n.Bucket(kind))
	}
	return streams
}

// Experts are the streams of routed rows.
func (n ModelNames) Experts() (streams []string) {
	for _, layer := range n.Layers {
		streams = append(streams, n.Streams.Expert(layer).Name)
	}
	return streams
}

// Functions are the subjects of rows for all functions of experts.
func (n ModelNames) Functions() string { return n.Prefix + ".expert." + n.Model + ".>" }

// API is a subject of JetStream's API.
func API(call, stream string) string { return "$JS.API." + call + "." + stream }

// APIs are the subjects of one call for several streams.
func APIs(call string, streams ...string) []string {
	subjects := make([]string, len(streams))
	for i, stream := range streams {
		subjects[i] = API(call, stream)
	}
	return subjects
}

// Work is taking messages of a stream and settling them.
func Work(streams ...string) (subjects []string) {
	for _, stream := range streams {
		subjects = append(subjects, Under(API("CONSUMER.CREATE", stream)), Under(API("CONSUMER.MSG.NEXT", stream)), Under("$JS.ACK."+stream))
	}
	return subjects
}

// Follow is reading a stream from a place on, by a consumer of one's own.
func Follow(stream string) []string {
	return append(Watch(stream), Under(API("CONSUMER.MSG.NEXT", stream)))
}

// Watch is reading a bucket's keys as they change, by a consumer that pushes.
func Watch(stream string) []string {
	return []string{Under(API("CONSUMER.CREATE", stream)), Under(API("CONSUMER.DELETE", stream))}
}

// Look is finding a bucket and watching it.
func (n ModelNames) Look(kind string) []string {
	return append(Watch(n.Bucket(kind)), API("STREAM.INFO", n.Bucket(kind)))
}

// Get is reading single keys of a bucket.
func Get(stream string) string { return Under(API("DIRECT.GET", stream)) }
