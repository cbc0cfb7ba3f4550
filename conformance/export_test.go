package conformance

func init() { emptyPools = false }
