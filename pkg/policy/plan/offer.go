package plan

import (
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Proto is an offer as a member makes it.
func (o Offer) Proto() *pb.UnitedExperts {
	u := &pb.UnitedExperts{Way: uint32(o.Way), Bundle: o.ID, Bytes: o.Bytes, Grouped: o.Grouped}
	for i, none := range o.Without {
		if i%8 == 0 {
			u.Without = append(u.Without, 0)
		}
		if none {
			u.Without[i/8] |= 1 << (i % 8)
		}
	}
	return u
}

// OfferOf is what a member offers for a layer's experts; false if that cannot be.
func OfferOf(u *pb.UnitedExperts, experts, layers int) (o Offer, ok bool) {
	if CheckWay(United, u.GetWay(), experts) != nil || u.GetBundle() == 0 || u.GetBytes() == 0 || u.GetBytes() > maxOffered {
		return o, false
	}
	o = Offer{Bundle: Bundle{Way: int(u.Way), ID: u.Bundle}, Bytes: u.Bytes, Grouped: u.Grouped}
	n := layers * Groups(experts, o.Way)
	if len(u.Without) == 0 {
		return o, true
	}
	if len(u.Without) != (n+7)/8 {
		return o, false
	}
	for i := range n {
		o.Without = append(o.Without, u.Without[i/8]&(1<<(i%8)) != 0)
	}
	return o, true
}

// maxOffered bounds the bytes that a host is believed to count for a united expert.
const maxOffered = 1 << 40
