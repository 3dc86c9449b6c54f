// Look-ups in a hash table with open addressing: slots of key and value, and a linear search from the slot that the hash names.
// A key of 0 marks an empty slot.
__device__ unsigned int slot_of(unsigned int key, unsigned int mask) {
  key ^= key >> 16;
  key *= 0x7feb352du;
  key ^= key >> 15;
  return key & mask;
}

__global__ void hash_probe(const uint2* __restrict__ table, const unsigned int* __restrict__ queries, unsigned int* __restrict__ found,
                           int count, unsigned int mask) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  unsigned int wanted = queries[i], slot = slot_of(wanted, mask), value = 0xffffffffu;
  while (true) {
    uint2 entry = table[slot];
    if (entry.x == wanted) value = entry.y;
    if (entry.x == wanted || entry.x == 0u) break;
    slot = (slot + 1u) & mask;
  }
  found[i] = value;
}
