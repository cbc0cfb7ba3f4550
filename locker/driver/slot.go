package driver

import "strings"

// Slots is the number of hash slots of a Cluster.
const Slots = 16384

// Slot returns the hash slot of key: CRC16 (XMODEM) of its hash tag, or of the
// whole key where it has none, modulo [Slots]. The tag is what stands between
// the first "{" and the first "}" after it, unless that is empty.
//
// Source: the Redis Cluster specification, "Keys hash tags".
func Slot(key string) int {
	if i := strings.IndexByte(key, '{'); i >= 0 {
		if n := strings.IndexByte(key[i+1:], '}'); n > 0 {
			key = key[i+1 : i+1+n]
		}
	}
	var crc uint16
	for i := range len(key) {
		crc ^= uint16(key[i]) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return int(crc) % Slots
}
