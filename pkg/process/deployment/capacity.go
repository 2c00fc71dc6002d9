package deployment

import (
	"github.com/switchyard/switchyard/pkg/control/members"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// KVPages is the name under which an attention replica announces how many KV
// pages it has.
const KVPages = "kv_pages"

// LargestKV is how many KV pages the largest of the live attention replicas of
// this model has; 0 if none has said so.
func (d *Deployment) LargestKV(all []*pb.Member) (pages float64) {
	for _, m := range members.OfService(all, "attention") {
		if m.ModelHash == d.Identity.Model && m.Ready && !m.Draining {
			pages = max(pages, m.Stats[KVPages])
		}
	}
	return pages
}
