#include <cooperative_groups.h>
namespace cg = cooperative_groups;

extern "C" __global__ void grid_sync(int* a, int* out, int rounds) {
    cg::grid_group grid = cg::this_grid();
    int i = grid.thread_rank(), n = grid.size();
    for (int r = 0; r < rounds; r++) {
        a[(r & 1) * n + i] = (r ? a[(1 - (r & 1)) * n + (i + 33) % n] : i) * 2 + r;
        grid.sync();
    }
    out[i] = a[((rounds - 1) & 1) * n + n - 1 - i];
}

extern "C" __global__ void tiles(const int* in, int* out) {
    cg::thread_block block = cg::this_thread_block();
    cg::thread_block_tile<8> tile = cg::tiled_partition<8>(block);
    int x = in[block.thread_rank()];
    block.sync();
    x = tile.ballot(x & 1) + 1000 * tile.shfl(x, 3) + 100000 * tile.any(x == 7) + 200000 * tile.all(x != 9);
    tile.sync();
    out[block.thread_rank()] = x;
}
