// Ranks page views from records of 48 bytes, an array of structs: a thread reads three fields of its record, each 48 bytes from its
// neighbour's, and counts the view for its page if it lasted long enough.
struct View {
  unsigned int page, visitor;
  float seconds, bytes;
  unsigned int rest[8];
};

__global__ void page_view_rank(const View* __restrict__ views, float* __restrict__ score, unsigned int* __restrict__ page_views,
                               int count, float least_seconds) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  float seconds = views[i].seconds;
  float value = logf(1.0f + seconds) * rsqrtf(1.0f + views[i].bytes);
  if (seconds >= least_seconds) atomicAdd(&page_views[views[i].page], 1u);
  score[i] = value;
}
