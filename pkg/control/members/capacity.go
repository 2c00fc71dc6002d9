package members

import (
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// KVPages is the name under which an attention replica announces how many KV
// pages it has.
const KVPages = "kv_pages"

// What an expert host announces of its work since its start: dispatches that it has
// computed, their routed rows, and the seconds in which it computed any.
const (
	HostMessages = "dispatches_total"
	HostRows     = "rows_total"
	HostSeconds  = "busy_seconds_total"
)

// LargestKV is how many KV pages the largest of a model's live attention
// replicas has; 0 if none has said so.
func LargestKV(all []*pb.Member, model uint64) (pages float64) {
	for _, m := range OfService(all, "attention") {
		if m.ModelHash == model && m.Ready && !m.Draining {
			pages = max(pages, m.Stats[KVPages])
		}
	}
	return pages
}
