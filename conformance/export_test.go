package conformance

var NotOnQuorum = notOnQuorum

func init() { emptyPools = false }
